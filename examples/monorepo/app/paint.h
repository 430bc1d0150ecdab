#pragma once

void paint(unsigned char *pixels, unsigned n);
