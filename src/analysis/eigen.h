/* Eigenvalues and eigenvectors of a small symmetric matrix. */
#ifndef MT_ANALYSIS_EIGEN_H
#define MT_ANALYSIS_EIGEN_H

/*
 * Jacobi's rotations. matrix[size,size] is used up; values[size] fall, vectors[size,size] has the vector of
 * value i in row i.
 */
void mt_eigen_symmetric(double *matrix, int size, double *values, double *vectors);

#endif
