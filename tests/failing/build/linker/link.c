!ld.lld: error: undefined symbol: at::native::gone()
!>>> referenced by x.o
