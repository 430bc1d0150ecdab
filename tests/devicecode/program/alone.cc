int first(int *out);
int second(int *out);

int main() {
  int out = 0;
  return first(&out) + second(&out);
}
