// Shows when the program's own constructor and main run.
#include <stdio.h>

__attribute__((constructor)) static void first(void) {
  puts("constructor");
  fflush(stdout);
}

int main(void) {
  puts("main");
  fflush(stdout);
  return 0;
}
