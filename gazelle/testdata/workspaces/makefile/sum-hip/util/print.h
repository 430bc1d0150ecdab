void print();
