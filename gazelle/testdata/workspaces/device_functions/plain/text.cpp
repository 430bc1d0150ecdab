const char *text = "__device__";
