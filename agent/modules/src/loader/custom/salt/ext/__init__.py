"""What older Salts carried along."""
