"""Attribution of a delivered library's bytes: their purpose, and who asks for them."""
