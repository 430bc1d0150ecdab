#include "scale.h"
int main() { scale(); }
