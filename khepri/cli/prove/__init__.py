"""``khepri prove``: whether drafts change what the model says, token by token."""
