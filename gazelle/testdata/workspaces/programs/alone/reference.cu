int reference() { return 1; }
