"""Which language a file is in, and which nodes of its grammar define something.

One row per language: its suffixes and a tree-sitter query. A query captures a definition as the kind of symbol it
makes (``@class``, ``@function``, …) and its name as ``@name``. Besides the kinds there are ``@upper`` (a constant if
its name is in capitals), ``@scope`` (no symbol itself, but it qualifies names and its functions are methods, as in a
Rust ``impl`` block), ``@package`` (the same for plain functions, as in a C++ namespace) and ``@owner`` (the type that a
definition outside its body belongs to, such as a Go receiver). What is made of the captures is not known here.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter_language_pack import SupportedLanguage

_MAX_SHEBANG_CHARS = 200


@dataclass(frozen=True)
class Grammar:
    """A language whose definitions can be found."""

    name: "SupportedLanguage"
    """The grammar's name in tree-sitter-language-pack."""
    family: str
    """Languages of one family call each other's definitions by name."""
    query: str
    """The tree-sitter query that captures its definitions."""


_PYTHON = """
(class_definition name: (identifier) @name) @class
(function_definition name: (identifier) @name) @function
(module (assignment left: (identifier) @name) @upper)
(module (type_alias_statement left: (type (identifier) @name)) @type)
"""

_JAVASCRIPT = """
(class_declaration name: (_) @name) @class
(class name: (_) @name) @class
(function_declaration name: (identifier) @name) @function
(generator_function_declaration name: (identifier) @name) @function
(method_definition name: (_) @name) @method
(variable_declarator name: (identifier) @name
  value: [(arrow_function) (function_expression) (generator_function)]) @function
(assignment_expression left: (member_expression) @name right: [(arrow_function) (function_expression)]) @function
(program [
  (lexical_declaration (variable_declarator name: (identifier) @name) @upper)
  (export_statement (lexical_declaration (variable_declarator name: (identifier) @name) @upper))
])
"""

_JAVASCRIPT_ONLY = "(field_definition property: (_) @name value: (arrow_function)) @method\n"

_TYPESCRIPT_ONLY = """
(abstract_class_declaration name: (_) @name) @class
(interface_declaration name: (_) @name) @interface
(enum_declaration name: (_) @name) @enum
(type_alias_declaration name: (_) @name) @type
(internal_module name: (_) @name) @namespace
(module name: (identifier) @name) @namespace
(abstract_method_signature name: (_) @name) @method
(public_field_definition name: (_) @name value: (arrow_function)) @method
"""

_GO = """
(function_declaration name: (identifier) @name) @function
(method_declaration receiver: (parameter_list (parameter_declaration type: [
  (type_identifier) @owner
  (generic_type type: (type_identifier) @owner)
  (pointer_type (type_identifier) @owner)
  (pointer_type (generic_type type: (type_identifier) @owner))
])) name: (field_identifier) @name) @method
(type_spec name: (type_identifier) @name type: (struct_type)) @struct
(type_spec name: (type_identifier) @name type: (interface_type)) @interface
(type_spec name: (type_identifier) @name
  type: [(type_identifier) (qualified_type) (function_type) (map_type) (slice_type) (pointer_type)]) @type
(type_alias name: (type_identifier) @name) @type
(source_file (const_declaration (const_spec name: (identifier) @name) @constant))
"""

_RUST = """
(function_item name: (identifier) @name) @function
(function_signature_item name: (identifier) @name) @function
(struct_item name: (type_identifier) @name) @struct
(union_item name: (type_identifier) @name) @struct
(enum_item name: (type_identifier) @name) @enum
(trait_item name: (type_identifier) @name) @trait
(type_item name: (type_identifier) @name) @type
(mod_item name: (identifier) @name body: (_)) @namespace
(macro_definition name: (identifier) @name) @macro
(const_item name: (identifier) @name) @constant
(impl_item type: [(type_identifier) @name (generic_type type: (type_identifier) @name)]) @scope
"""

_JAVA = """
(class_declaration name: (identifier) @name) @class
(interface_declaration name: (identifier) @name) @interface
(enum_declaration name: (identifier) @name) @enum
(record_declaration name: (identifier) @name) @class
(annotation_type_declaration name: (identifier) @name) @interface
(method_declaration name: (identifier) @name) @method
(constructor_declaration name: (identifier) @name) @method
"""

_C = """
(function_definition declarator: [
  (function_declarator declarator: (_) @name)
  (pointer_declarator (function_declarator declarator: (_) @name))
  (pointer_declarator (pointer_declarator (function_declarator declarator: (_) @name)))
]) @function
(struct_specifier name: (_) @name body: (_)) @struct
(union_specifier name: (_) @name body: (_)) @struct
(enum_specifier name: (_) @name body: (_)) @enum
(type_definition declarator: (type_identifier) @name) @type
(preproc_function_def name: (identifier) @name) @macro
(preproc_def name: (identifier) @name value: (_)) @constant
"""

_CPP_ONLY = """
(function_definition declarator: (reference_declarator (function_declarator declarator: (_) @name))) @function
(field_declaration declarator: (function_declarator declarator: (_) @name)) @method
(class_specifier name: (_) @name body: (_)) @class
(alias_declaration name: (type_identifier) @name) @type
(concept_definition name: (identifier) @name) @type
(namespace_definition name: (_) @name) @package
"""

_CSHARP = """
(class_declaration name: (identifier) @name) @class
(record_declaration name: (identifier) @name) @class
(struct_declaration name: (identifier) @name) @struct
(interface_declaration name: (identifier) @name) @interface
(enum_declaration name: (identifier) @name) @enum
(delegate_declaration name: (identifier) @name) @type
(method_declaration name: (identifier) @name) @method
(constructor_declaration name: (identifier) @name) @method
(property_declaration name: (identifier) @name) @property
(local_function_statement name: (identifier) @name) @function
"""

_RUBY = """
(class name: (_) @name) @class
(module name: (_) @name) @module
(method name: (_) @name) @function
(singleton_method name: (_) @name) @function
(assignment left: (constant) @name) @constant
"""

_PHP = """
(class_declaration name: (name) @name) @class
(interface_declaration name: (name) @name) @interface
(trait_declaration name: (name) @name) @trait
(enum_declaration name: (name) @name) @enum
(method_declaration name: (name) @name) @method
(function_definition name: (name) @name) @function
(const_declaration (const_element (name) @name)) @constant
"""

_LUA = """
(function_declaration name: (_) @name) @function
(assignment_statement (variable_list . name: (_) @name) (expression_list . value: (function_definition))) @function
"""

_KOTLIN = """
(class_declaration (type_identifier) @name) @class
(object_declaration (type_identifier) @name) @class
(function_declaration (simple_identifier) @name) @function
(type_alias (type_identifier) @name) @type
"""

_SWIFT = """
(class_declaration name: (type_identifier) @name) @class
(class_declaration name: (user_type) @name) @scope
(protocol_declaration name: (type_identifier) @name) @interface
(function_declaration name: (simple_identifier) @name) @function
(protocol_function_declaration name: (simple_identifier) @name) @method
(init_declaration "init" @name) @method
(typealias_declaration name: (type_identifier) @name) @type
"""

_SCALA = """
(class_definition name: (identifier) @name) @class
(object_definition name: (identifier) @name) @class
(trait_definition name: (identifier) @name) @trait
(enum_definition name: (identifier) @name) @enum
(function_definition name: (identifier) @name) @function
(function_declaration name: (identifier) @name) @function
(type_definition name: (type_identifier) @name) @type
"""

_MARKDOWN = """
(section . (atx_heading heading_content: (inline) @name)) @heading
(setext_heading heading_content: (paragraph) @name) @heading
"""

_BASH = "(function_definition name: (word) @name) @function"


@cache
def _by_suffix() -> dict[str, Grammar]:
    rows: list[tuple[str, SupportedLanguage, str, str]] = [
        (".py .pyi .pyw", "python", "python", _PYTHON),
        (".js .mjs .cjs .jsx", "javascript", "javascript", _JAVASCRIPT + _JAVASCRIPT_ONLY),
        (".ts .mts .cts", "typescript", "javascript", _JAVASCRIPT + _TYPESCRIPT_ONLY),
        (".tsx", "tsx", "javascript", _JAVASCRIPT + _TYPESCRIPT_ONLY),
        (".go", "go", "go", _GO),
        (".rs", "rust", "rust", _RUST),
        (".java", "java", "jvm", _JAVA),
        (".kt .kts", "kotlin", "jvm", _KOTLIN),
        (".scala .sc", "scala", "jvm", _SCALA),
        (".c", "c", "c", _C),
        (".cpp .cc .cxx .c++ .h .hpp .hh .hxx .ipp .cu .cuh", "cpp", "c", _C + _CPP_ONLY),
        (".cs", "csharp", "csharp", _CSHARP),
        (".rb .rake .gemspec", "ruby", "ruby", _RUBY),
        (".php .phtml", "php", "php", _PHP),
        (".sh .bash .zsh .ksh .bats", "bash", "bash", _BASH),
        (".lua", "lua", "lua", _LUA),
        (".swift", "swift", "swift", _SWIFT),
        (".md .markdown", "markdown", "markdown", _MARKDOWN),
    ]
    return {
        suffix: Grammar(name, family, query) for suffixes, name, family, query in rows for suffix in suffixes.split()
    }


@cache
def _suffix_of_interpreter() -> dict[str, str]:
    return {
        "python": ".py",
        "node": ".js",
        "deno": ".ts",
        "bun": ".ts",
        "ruby": ".rb",
        "php": ".php",
        "lua": ".lua",
        "luajit": ".lua",
        "sh": ".sh",
        "bash": ".sh",
        "dash": ".sh",
        "zsh": ".sh",
        "ksh": ".sh",
    }


def grammar_of(path: str, text: str = "") -> Grammar | None:
    """Return the grammar for a file, by its suffix, else by the interpreter that its first line names.

    Args:
        path: POSIX path of the file; only its name is looked at.
        text: The file's text, or its beginning; without it a file without suffix has no grammar.
    """
    # Called for every file of a repository, where a path object would cost more than the question.
    name = path[path.rfind("/") + 1 :]
    dot = name.rfind(".")
    suffix = name[dot:].lower() if dot > 0 else ""
    if suffix or not text.startswith("#!"):
        return _by_suffix().get(suffix)
    words = text[2:_MAX_SHEBANG_CHARS].split("\n", 1)[0].split()
    for word in words:
        program = PurePosixPath(word).name
        if program != "env" and not word.startswith("-"):
            return _by_suffix().get(_suffix_of_interpreter().get(program.rstrip("0123456789."), ""))
    return None
