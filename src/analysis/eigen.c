/* Cyclic Jacobi: each rotation makes one entry off the diagonal zero; a few sweeps make all of them so. */
#include "analysis/eigen.h"

#include <math.h>

#define SWEEPS 60 // far more than ever needed: convergence is quadratic

/* Rows p and q of a matrix, turned by the angle of cosine c and sine s. */
static void turn_rows(double *matrix, int size, int p, int q, double c, double s)
{
    for (int i = 0; i < size; i++) {
        double a = matrix[p * size + i];
        double b = matrix[q * size + i];
        matrix[p * size + i] = c * a - s * b;
        matrix[q * size + i] = s * a + c * b;
    }
}

static void turn_columns(double *matrix, int size, int p, int q, double c, double s)
{
    for (int i = 0; i < size; i++) {
        double a = matrix[i * size + p];
        double b = matrix[i * size + q];
        matrix[i * size + p] = c * a - s * b;
        matrix[i * size + q] = s * a + c * b;
    }
}

/* One sweep; false when nothing was left to turn. */
static int sweep(double *matrix, int size, double *vectors)
{
    int turned = 0;
    for (int p = 0; p < size; p++) {
        for (int q = p + 1; q < size; q++) {
            double off = matrix[p * size + q];
            double small = 1e-17 * sqrt(fabs(matrix[p * size + p] * matrix[q * size + q]));
            if (off == 0.0 || fabs(off) <= small) continue;
            double theta = (matrix[q * size + q] - matrix[p * size + p]) / (2.0 * off);
            double t = copysign(1.0, theta) / (fabs(theta) + sqrt(theta * theta + 1.0));
            double c = 1.0 / sqrt(t * t + 1.0);
            turn_columns(matrix, size, p, q, c, t * c);
            turn_rows(matrix, size, p, q, c, t * c);
            turn_rows(vectors, size, p, q, c, t * c);
            matrix[p * size + q] = 0.0;
            matrix[q * size + p] = 0.0;
            turned = 1;
        }
    }
    return turned;
}

static void exchange(double *values, double *vectors, int size, int a, int b)
{
    double value = values[a];
    values[a] = values[b];
    values[b] = value;
    for (int i = 0; i < size; i++) {
        double entry = vectors[a * size + i];
        vectors[a * size + i] = vectors[b * size + i];
        vectors[b * size + i] = entry;
    }
}

void mt_eigen_symmetric(double *matrix, int size, double *values, double *vectors)
{
    for (int i = 0; i < size; i++) {
        for (int j = 0; j < size; j++) vectors[i * size + j] = i == j ? 1.0 : 0.0;
    }
    int turned = 1;
    for (int i = 0; turned != 0 && i < SWEEPS; i++) turned = sweep(matrix, size, vectors);
    for (int i = 0; i < size; i++) values[i] = matrix[i * size + i];
    for (int i = 0; i < size; i++) {
        int largest = i;
        for (int j = i + 1; j < size; j++) largest = values[j] > values[largest] ? j : largest;
        if (largest != i) exchange(values, vectors, size, i, largest);
    }
}
