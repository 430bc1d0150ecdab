#include <hip/hip_runtime.h>

#include "load.h"

int main() {
  hipModule_t module;
  return hipModuleLoad(&module, "kernels.hsaco");
}
