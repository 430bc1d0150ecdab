void text() {}
