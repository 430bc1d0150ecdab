#include "timer.h"

void kernel();

int main() { kernel(); }
