#include "reference.h"
int main() {
#pragma omp target
  {}
}
