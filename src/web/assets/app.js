/* plan-agent */
