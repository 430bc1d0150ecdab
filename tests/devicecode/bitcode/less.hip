__attribute__((device)) int less(int x) { return x - 5; }
