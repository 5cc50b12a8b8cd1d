// This test program as one rank of a job (rank.cpp).
#pragma once

#include <string>
#include <vector>

namespace ebb::test {

int rank_main(const std::vector<std::string>& arguments);  // role, directory

}  // namespace ebb::test
