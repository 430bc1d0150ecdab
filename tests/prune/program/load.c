// Loads a library, whose constructors register device code.
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv) {
  void *library = dlopen(argv[1], RTLD_NOW);
  if (!library) {
    printf("%s\n", dlerror());
    return 1;
  }
  const char *(*check)(void) = (const char *(*)(void))dlsym(library, "check");
  printf("%s\n", check());
  return 0;
}
