int detail;
