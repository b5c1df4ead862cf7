!b.c:1:1: fatal error: 'x.h' file not found
