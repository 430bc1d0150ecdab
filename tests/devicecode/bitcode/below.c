int below(int x) { return x ^ 85; }
