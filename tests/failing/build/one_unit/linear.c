!/src/native/Linear.cpp:12:3: error: unknown type name 'Tensr'
!/src/native/Linear.cpp:12:9: note: expected
!1 error generated.
