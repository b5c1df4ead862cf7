!c.c:1:1: error: two
!c.c:2:1: error: three
