killed
