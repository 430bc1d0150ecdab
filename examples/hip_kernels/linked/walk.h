#pragma once

int walk(int *out);
