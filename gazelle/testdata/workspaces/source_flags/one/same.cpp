void same() {}
