// The host part of a library or program: it registers COUNT wrappers and checks that
// its own data is as it was compiled.
#include <stdio.h>
#include <string.h>

extern char wrappers[];
void **__hipRegisterFatBinary(const void *);

static const char text[] = "read-only data";
const char *const table[] = {"one", "two", "three", text};
static int zeros[3000];
int data[] = {1, 2, 3};
const int constants[] = {4, 5, 6};
int *const pointers[] = {data, data + 1, data + 2};

const char *check(void) {
  int sum = 0;
  for (int i = 0; i < 3000; i++)
    sum += zeros[i]++;
  for (int i = 0; i < 3; i++)
    sum += data[i] + constants[i] + *pointers[i];
  return sum == 27 && !strcmp(table[3], text) && !strcmp(table[1], "two") ? "intact" : "damaged";
}

__attribute__((constructor)) static void enlist(void) {
  for (int i = 0; i < COUNT; i++)
    __hipRegisterFatBinary(wrappers + i * STRIDE);
}

#ifdef PROGRAM
int main(void) {
  puts(check());
  return 0;
}
#endif
