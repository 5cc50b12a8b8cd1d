// This test program as one rank of a job (rank.cpp).
#pragma once

#include <string>
#include <vector>

namespace ebb::test {

void train_role(const std::string& folder);  // train_role.cpp

int rank_main(const std::vector<std::string>& arguments);  // role, directory

}  // namespace ebb::test
