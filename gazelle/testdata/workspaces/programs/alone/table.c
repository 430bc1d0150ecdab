int table[4];
