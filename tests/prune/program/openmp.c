// A stand-in for OpenMP's registration: it prints the images that records lead to.
#include <stdint.h>
#include <stdio.h>

struct record {
  const char *start, *end, *first_entry, *last_entry;
};
extern struct record records[];
extern char names[];

const char *check(void) {
  for (int i = 0; i < COUNT; i++) {
    uint64_t h = 1469598103934665603u;
    for (const char *p = records[i].start; p < records[i].end; p++)
      h = (h ^ (unsigned char)*p) * 1099511628211u;
    printf("image %d %016llx %s\n", (int)(records[i].end - records[i].start), (unsigned long long)h, records[i].first_entry);
  }
  return "intact";
}

#ifdef PROGRAM
int main(void) {
  puts(check());
  return 0;
}
#endif
