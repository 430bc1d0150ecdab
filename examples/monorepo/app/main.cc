#include <cstdio>

#include "app/paint.h"
#include "runtime/runtime.h"

int main() {
  paint(nullptr, 0);
  std::printf("%d fat binaries, %d launches\n", fat_binaries, launches);
  return fat_binaries == 2 && launches == 1 ? 0 : 1;
}
