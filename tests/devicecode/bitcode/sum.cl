int scale(int x);

int sum(int a, int b) { return scale(a) + b; }
