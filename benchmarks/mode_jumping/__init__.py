"""`ModeJumping` beside NUTS and other samplers."""
