int reset(int to);
int step(int *out);

int main() {
  int out[64] = {};
  return reset(7) + step(out);
}
