// Runs one section of a document: docs_sections NAME.
#include <cstring>
#include <exception>
#include <iostream>

#include "tests/docs/section.hpp"

int main(int argc, char** argv) try {
  for (const docs::Section* section : docs::Section::all())
    if (argc == 2 && std::strcmp(argv[1], section->name) == 0) {
      section->run();
      return 0;
    }
  std::cerr << "docs_sections: there is no such section\n";
  return 2;
} catch (const std::exception& e) {
  std::cerr << e.what() << '\n';
  return 1;
}
