// Serves a store until standard input ends; prints its port. For tests/oracles/store_test.py.
#include <unistd.h>

#include <iostream>

#include "lockstep/store/server.h"

int main() {
  const lockstep::store::Server server("127.0.0.1", 0);
  std::cout << server.port() << std::endl;
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) > 0) {
  }
  return 0;
}
