int table = 1;
