int host();
