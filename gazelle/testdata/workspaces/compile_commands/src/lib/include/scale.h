void scale();
