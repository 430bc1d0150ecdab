#include "linked/walk.h"

int main() {
  int out[64] = {};
  return walk(out);
}
