"""How far `barrier` goes: barriers of tens and of hundreds of nats."""
