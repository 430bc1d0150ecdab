#include <cstdio>

#include "math/saxpy.h"

int main() {
  std::printf("main\n");
  float x[1000] = {}, y[1000] = {};
  return saxpy(2, x, y, 1000) + block_sum(x, y, 1000);
}
