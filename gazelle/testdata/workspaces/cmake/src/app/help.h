void help();
