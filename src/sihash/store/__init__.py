"""Files and a catalogue that are never half written: storage, which knows nothing of hashing."""
