#pragma once

int step(int *out);
