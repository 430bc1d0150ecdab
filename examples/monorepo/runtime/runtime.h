// A stand-in for HIP's runtime: it counts.
#pragma once

extern int fat_binaries, launches;
