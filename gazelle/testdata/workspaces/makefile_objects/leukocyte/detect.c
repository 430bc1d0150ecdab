#include "track.h"

int main() { return track(1); }
