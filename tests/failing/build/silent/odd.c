!no words
!that a pattern knows
