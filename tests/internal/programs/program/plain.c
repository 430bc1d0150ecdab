// A program without target regions that uses the library.
#include <stdio.h>

int sum_to(int), square(int);

int main(void) {
  printf("library=%d,%d\n", sum_to(10), square(7));
  return sum_to(10) != 45 || square(7) != 49;
}
